"""What the laboratory tells the ranks of a running trial: pure decisions on what they sent."""
