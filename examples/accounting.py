"""What a training run costs, by every method, and how much noise a budget needs: python examples/accounting.py"""

import deniable as dp

training = dp.GaussianNoise(1.1).sampled(0.01) * 5_000
for name, bound in dp.compare(training, 1e-5).items():
    print(f"{name:10}", f"ε ≤ {bound.upper:.4g}" if isinstance(bound, dp.Bound) else bound)  # or why not
print("The truth lies in", dp.epsilon(training, 1e-5))
print("Noise for ε = 1:", float(dp.accounting.calibrate_noise(1, 1e-5, rate=0.01, steps=5_000)))
print("As a claim that others can check:", dp.certify(training, dp.Unit.row(), 1e-5).bound)
