"""What runs inside a Kubeflow pod around a step: the component's body, and a run's first and last step."""
