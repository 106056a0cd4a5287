"""Recipes that work: mechanisms for well-known data with everything chosen.

mnist.mnist(epsilon)            digits by scattering, private half whitening and softmax regression
cifar10.cifar10(epsilon)        the same for colour pictures
classifier.Recipe               what both are made of, for images and features of your own
abadi.PcaNetwork                the network of Abadi et al. 2016, on private principal components
exact                           sums without rounding, integer noise, and why its loss may say `GaussianNoise`
"""
