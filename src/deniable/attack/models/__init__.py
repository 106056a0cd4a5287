"""Attacks on models: what weights and confidences show of the rows they were made from.

attribute   a sensitive column from a model's confidence
sensitive   how much of a column a model gives away, beside what its guarantee allows
points      models that are training points: support vectors, medians
invert      what a model that recognises people shows of them
stationary  training images from weights
memorize    secrets that a text model remembers
characters  a small text model to try it on
sentences   lines of text to hide a secret in
examples    public example data as rows and labels
"""
