"""The command line `multiview`: what one does with a store without running a pipeline."""
