"""Canaries for audits of private training (`audit.sgd` runs them).

designs  one canary in a step, each made to show another kind of mistake
fields   canaries by the hundred in one step
bets     a certified bound where few scores tell much
"""
