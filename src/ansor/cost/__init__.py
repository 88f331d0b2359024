"""What a program will cost: features of its loops, analytic seconds, learned models."""
