"""Recipes that work: mechanisms for well-known data with everything chosen.

mnist.mnist(epsilon)            digits by scattering, private half whitening and softmax regression
cifar10.cifar10(epsilon)        the same for colour pictures, by scattering and by patches
classifier.Recipe               what both are made of, for images and features of your own
abadi.PcaNetwork                the network of Abadi et al. 2016, on private principal components
patches, principal, leaves      features of patches, principal directions of features, from drawn pictures:
                                nothing learnt from data
integers                        products of 8-bit integers, fast where the machine computes them exactly
exact                           sums without rounding, integer noise, and why its loss may say `GaussianNoise`
"""
