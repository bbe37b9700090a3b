"""The scikit-learn surface: CCA, KernelCCA, SparseCCA, and their files."""
