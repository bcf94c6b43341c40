"""What a trained model is for: who, when, and how sure one can be."""
