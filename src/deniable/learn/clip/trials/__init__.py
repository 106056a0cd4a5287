"""What is refused, or done more slowly, on made-up rows: `generated` rows, the way through a model
that they show (`probe`), and whether rows in a batch have the gradients of rows alone (`trial`)."""
