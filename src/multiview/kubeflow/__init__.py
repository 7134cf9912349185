"""Code around a step in a Kubeflow pod: the body of every component, and the first and last step of a run."""
