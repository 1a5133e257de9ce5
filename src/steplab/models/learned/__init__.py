"""What learned models share: encodings, trees, kriging, tuning."""
