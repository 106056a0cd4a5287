"""Membership inference: was this row among those a model was trained on?

evidence    what an attack sees: the target's outputs, and those of shadow models whose training rows it knows
scores      the attacks: a number for each row, larger for members
deviations  how surely a row's outputs are known from a few models: means and deviations per row, shrunk
curve       how well scores tell members: the ROC, its area, rates at few false alarms
measured    a training recipe under every attack
any_model   `attack.membership(train, data)`: the same for any model of yours
shadow      many small networks trained at once, to try it on
"""
