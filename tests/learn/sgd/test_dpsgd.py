"""A run is Algorithm 1 of Abadi et al. 2016, its loss is that of what it releases, and
what is wrong raises before the charge."""

from __future__ import annotations

import copy
import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from deniable.accounting import calibrate_noise, epsilon
from deniable.errors import AccountFrozen, BudgetExceeded, InvalidParameter, UnitMismatch
from deniable.guarantee import Budget
from deniable.learn.clip import Batch
from deniable.learn.sgd import DPSGD, Adaptive, Group, Learning, Lots, PerLayer, Privacy, cosine, linear
from deniable.learn.sgd.data.rows import rows
from deniable.learn.sgd.sampling.lots import plan
from deniable.learn.sgd.training import trainer as trainers
from deniable.ledger import Ledger
from deniable.loss import Composed, GaussianNoise, Loss, Repeated, Sampled
from deniable.mechanism import Mechanism
from deniable.randomness import SecureRandom, SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import Identity, account, output, problem, small, trainer
from tests.learn.sgd.runs import linear as model
from tests.learn.sgd.test_noise import accepts

X, Y = problem()


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the noise away, so that the rest of a step can be compared."""
    monkeypatch.setattr(trainers, "noisy_mean", lambda total, deviation, lot, rng: total.div_(lot))


def naive(net: nn.Module, x: Tensor, y: Tensor, clip: float) -> dict[str, Tensor]:
    """Σ of clipped gradients, one example after the other."""
    total = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    for i in range(len(x)):
        loss = nn.functional.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        for name, g in zip(total, gradients, strict=True):
            total[name] += g * min(1.0, clip / norm)
    return total


# ------------------------------------------------------------------------------------------------ the algorithm


def test_a_step_is_the_clipped_sum_over_the_fixed_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for lots that are empty or longer than the lot: the divisor is rate·n, not what was drawn."""
    silent(monkeypatch)
    run = small(lot=60, clip=0.3)
    for size in (0, 1, 59, 300):
        t = trainer(run)
        t.taken = 1
        released = t.release(t.clipped([Batch((X[:size], Y[:size]))] if size else []))
        expected = naive(run.model, X[:size], Y[:size], 0.3)
        for name, part in released.items():
            assert torch.allclose(part, expected[name] / 60, rtol=1e-3, atol=1e-6)


def test_a_run_is_a_loop_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    run = small(rate=1, n=None, lot=60, steps=4, learning_rate=linear(0.5, 0.1, over=4), clip=0.3)
    trained = run((X, Y), rng=SeededRandom(1))
    net = copy.deepcopy(run.model)
    for step in range(4):
        gradient = naive(net, X, Y, 0.3)
        with torch.no_grad():
            for name, p in net.named_parameters():
                p -= (0.5 - 0.1 * step) * gradient[name] / 60
    for found, expected in zip(trained.model.parameters(), net.parameters(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-3, atol=1e-5)
    assert trained.history.learning_rate == pytest.approx([0.5, 0.4, 0.3, 0.2])


@pytest.mark.parametrize("bound", [0.1, 1.0])
def test_the_noise_of_a_step_is_the_multiplier_times_the_clip_over_the_lot(bound: float) -> None:
    run = small(Identity(100_000), output, clip=bound, noise_multiplier=1.7, lot=50)
    t = trainer(run)
    t.taken = 1
    noise = t.release(t.clipped([]))["line.weight"].flatten().double().numpy()
    assert accepts(noise, 1.7 * bound / 50)
    assert not accepts(noise, 0.7 * 1.7 * bound / 50)
    assert not accepts(noise, 1.3 * 1.7 * bound / 50)


def test_noise_is_fresh_at_every_step_and_for_every_parameter() -> None:
    run = small(Identity(1000), output, steps=3)
    t = trainer(run)
    drawn = []
    for _ in range(3):
        t.taken += 1
        drawn.append(t.release(t.clipped([]))["line.weight"].flatten())
    assert len(torch.unique(torch.cat(drawn))) == 3000


def test_lots_are_poisson_samples() -> None:
    """Each row by its own coin: sizes are binomial, and rows come independently of one another."""
    t, data = trainer(small(n=40, lot=10)), rows((torch.arange(40.0)[:, None], torch.zeros(40)))
    seen = np.zeros((4000, 40))
    for i in range(4000):
        for batch in t.draw(data):
            seen[i, batch.rows[0][:, 0].long().numpy()] = 1
    sizes = seen.sum(axis=1)
    for row in seen.sum(axis=0):
        assert stats.binomtest(int(row), 4000, 0.25).pvalue > 1e-9
    low, high = stats.chi2.ppf([1e-9, 1 - 1e-9], 3999) * 40 * 0.25 * 0.75 / 3999
    assert low * 0.97 < sizes.var(ddof=1) < high * 1.03
    assert sizes.max() > 14  # longer than the lot, and not cut


def test_every_rate_is_drawn_exactly() -> None:
    assert small(n=60_000, lot=7).plan.rate == Fraction(7, 60_000)
    assert small(n=None, lot=7, rate=0.001).plan.rate == 0.001


def test_the_number_of_rows_is_not_read() -> None:
    """n is stated: a data set of another size has the same plan, loss and noise."""
    run = small(n=300, lot=60)
    before = run.loss
    assert run((X[:17], Y[:17]), rng=SeededRandom(1)).steps == 5
    assert run.loss == before


# ------------------------------------------------------------------------------------------------ the loss


def test_the_loss_is_that_of_its_steps() -> None:
    run = small(n=1000, lot=10, epochs=3, steps=None, noise_multiplier=1.3)
    assert run.loss == GaussianNoise(1.3).sampled(Fraction(1, 100)) * 300
    assert isinstance(run, Mechanism)
    assert run.unit == Unit.row()
    assert Loss.from_json(run.loss.to_json()) == run.loss
    assert run.loss_of(7) == GaussianNoise(1.3).sampled(Fraction(1, 100)) * 7


def test_a_full_lot_is_not_sampled() -> None:
    assert small(rate=1, n=None, steps=3).loss == GaussianNoise(1.0) * 3


def test_noise_solved_from_the_budget_is_the_least_that_keeps_it() -> None:
    run = small(n=6000, lot=100, steps=500, noise_multiplier=None, epsilon=2, delta=1e-5)
    assert epsilon(run.loss, 1e-5).upper <= 2
    assert run.noise_multiplier == pytest.approx(calibrate_noise(2, 1e-5, rate=Fraction(1, 60), steps=500))
    less = small(n=6000, lot=100, steps=500, noise_multiplier=run.noise_multiplier * 0.995)
    assert epsilon(less.loss, 1e-5).upper > 2


def test_replaced_rows_are_accounted_as_such() -> None:
    run = small(
        n=6000, lot=100, steps=50, noise_multiplier=None, epsilon=2, delta=1e-5, unit=Unit.row(replace=True)
    )
    assert run.loss.replaces is True
    assert epsilon(run.loss, 1e-5).upper <= 2
    added = small(n=6000, lot=100, steps=50, noise_multiplier=None, epsilon=2, delta=1e-5)
    assert run.noise_multiplier > added.noise_multiplier  # type: ignore[operator]


def test_a_noise_schedule_is_a_composition_of_its_stages() -> None:
    run = small(steps=10, noise_multiplier=2.0, noise_schedule=(1.5, 1, 0.5))
    step = [GaussianNoise(z).sampled(Fraction(1, 5)) for z in (3.0, 2.0, 1.0)]
    assert run.loss == Composed((step[0] * 4, step[1] * 3, step[2] * 3))
    used = [run.multipliers(i)["all"] for i in range(10)]
    assert used == [3.0] * 4 + [2.0] * 3 + [1.0] * 3
    assert run.loss_of(5) == Composed((step[0] * 4, step[1]))
    assert run.loss_of(4) == step[0] * 4
    solved = replace(run, privacy=replace(run.privacy, noise_multiplier=None, epsilon=3, delta=1e-5))
    assert 2.9 < epsilon(solved.loss, 1e-5).upper <= 3


def test_the_noise_follows_its_schedule() -> None:
    run = small(Identity(50_000), output, steps=2, noise_multiplier=1.0, noise_schedule=(2, 1), lot=60)
    t = trainer(run)
    for deviation in (2.0, 1.0):
        t.taken += 1
        noise = t.release(t.clipped([]))["line.weight"].flatten().double().numpy()
        assert accepts(noise, deviation / 60)


# ------------------------------------------------------------------------------------------------ clipping rules

LAYERS = PerLayer(
    {"body": Group(("0.weight", "0.bias"), 2.0), "head": Group(("2.weight", "2.bias"), 0.5, noise=2.0)}
)


def two_layers(hidden: int = 4) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, 3))


def test_four_layers_of_noise_one_cost_what_one_sample_costs() -> None:
    """Four layers at σ = 1 under one sample are one Gaussian of σ = ½: 13.36, not the
    3.72 of four samples' σ = 1."""
    net = nn.Sequential(*(nn.Linear(2, 2) for _ in range(4)))
    run = small(
        net, n=None, lot=10, rate=0.01, steps=1000, clip=PerLayer.by_module(net, 1.0), noise_multiplier=0.5
    )
    assert isinstance(run.loss, Repeated)
    assert isinstance(run.loss.of, Sampled)
    shares = run.multipliers(0)
    assert list(shares.values()) == pytest.approx([1.0] * 4)
    assert run.loss.of.of == Composed(tuple(GaussianNoise(m) for m in shares.values()))
    assert epsilon(run.loss, 1e-5).upper == pytest.approx(13.36, abs=0.02)


def test_groups_share_a_step_s_noise() -> None:
    run = small(two_layers(), clip=LAYERS, noise_multiplier=1.1)
    shares = run.multipliers(0)
    assert shares["head"] == pytest.approx(2 * shares["body"])
    together = math.fsum(m**-2 for m in shares.values()) ** -0.5
    assert 1.1 <= together < 1.1 * (1 + 1e-9)
    flat = epsilon(small(noise_multiplier=1.1, n=6000, lot=60, steps=100).loss, 1e-5)
    layered = epsilon(
        small(two_layers(), clip=LAYERS, noise_multiplier=1.1, n=6000, lot=60, steps=100).loss, 1e-5
    )
    assert layered.upper == pytest.approx(flat.upper, rel=1e-3)


def test_each_group_is_clipped_and_noised_by_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small(two_layers(3000), clip=LAYERS, noise_multiplier=1.1)
    t = trainer(run)
    t.taken = 1
    released = t.release(t.clipped([]))
    shares = run.multipliers(0)
    body = torch.cat([released["0.weight"].flatten(), released["0.bias"]]).double().numpy()
    head = torch.cat([released["2.weight"].flatten(), released["2.bias"]]).double().numpy()
    assert accepts(body, shares["body"] * 2.0 / 60)
    assert accepts(head, shares["head"] * 0.5 / 60)
    silent(monkeypatch)
    t.taken = 1
    one = t.clipped([Batch((1000 * X[:1], Y[:1]))]).total
    assert float(one["body"].norm()) <= 2.0
    assert float(one["head"].norm()) <= 0.5
    assert float(one["head"].norm()) > 0.49


def test_parameters_outside_all_groups_are_refused() -> None:
    with pytest.raises(
        InvalidParameter, match=r"missing: \['2.bias', '2.weight'\], repeated: \[\], not trainable: \[\]"
    ):
        small(two_layers(), clip=PerLayer({"body": Group(("0.weight", "0.bias"), 1)}))
    with pytest.raises(InvalidParameter, match=r"repeated: \['0.bias'\]"):
        small(two_layers(), clip=PerLayer({**dict(LAYERS.parts), "more": Group(("0.bias",), 1)}))


def test_the_count_of_adaptive_clipping_is_paid() -> None:
    run = small(clip=Adaptive(start=0.5, count_noise=3.0), noise_multiplier=1.0)
    expected = (1.0 - 6.0**-2) ** -0.5
    assert run.multipliers(0)["all"] == pytest.approx(expected)
    assert run.loss.of.of == Composed((GaussianNoise(run.multipliers(0)["all"]), GaussianNoise(6.0)))  # type: ignore[attr-defined]
    plain = epsilon(small(noise_multiplier=1.0).loss, 1e-5).upper
    assert epsilon(run.loss, 1e-5).upper == pytest.approx(plain, rel=1e-3)
    with pytest.raises(
        InvalidParameter, match=r"Expected count_noise=0.5 above 0.5, half the noise multiplier"
    ):
        small(clip=Adaptive(count_noise=0.5), noise_multiplier=1.0)


def test_the_count_has_the_noise_that_is_paid_for() -> None:
    """From empty lots: ln C moves by −speed·(noise/lot + ½ − quantile), the noise of deviation
    count_noise."""
    run = small(clip=Adaptive(start=1.0, count_noise=12.0, speed=0.001, quantile=0.5), lot=60, steps=8_000)
    t = trainer(run)
    last, moves = 1.0, []
    for _ in range(8_000):
        t._adapt(run.rule, 0.0)  # type: ignore[arg-type]
        moves.append(math.log(t.bounds["all"] / last))
        last = t.bounds["all"]
    assert accepts(np.array(moves), 0.001 * 12 / 60)


def test_adaptive_clipping_finds_the_quantile() -> None:
    """Norms are uniform on (0, 1): the bound for the quantile .8 is .8."""
    x = torch.linspace(0.001, 1, 2000)[:, None] * nn.functional.normalize(torch.randn(2000, 8), dim=1)
    rule = Adaptive(start=0.01, count_noise=20.0, quantile=0.8, speed=0.3)
    run = small(Identity(8), output, n=2000, lot=500, steps=120, clip=rule, learning_rate=1e-9)
    trained = run((x, torch.zeros(2000)), rng=SeededRandom(2))
    last = [bound["all"] for bound in trained.history.clip[-30:]]
    assert np.mean(last) == pytest.approx(0.8, abs=0.05)


# ------------------------------------------------------------------------------------------------ around the algorithm


def test_views_of_an_example_are_clipped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four equal views of each example give the sum of the examples themselves."""
    seen: list[int] = []

    def augment(x: Tensor) -> Tensor:
        seen.append(len(x))
        return x

    run = small(multiplicity=4, augment=augment)
    run.check((X, Y))
    many = trainer(run).clipped([Batch((X[:20], Y[:20]))]).total["all"]
    once = trainer(small()).clipped([Batch((X[:20], Y[:20]))]).total["all"]
    assert torch.allclose(many, once, atol=1e-5)
    assert seen[-1:] == [80]


def test_the_average_follows_the_model() -> None:
    run = small(average=0.5, steps=6, rate=1, n=None)
    t = trainer(run)
    average = [p.detach().clone() for p in t.model.parameters()]
    for step in range(1, 7):
        t.step([Batch((X[:40], Y[:40]))])
        decay = min(0.5, (1 + step) / (10 + step))
        average = [
            decay * a + (1 - decay) * p.detach() for a, p in zip(average, t.model.parameters(), strict=True)
        ]
    for found, expected in zip(t.result().model.parameters(), average, strict=True):
        assert torch.allclose(found, expected, atol=1e-6)
        assert not found.grad


@pytest.mark.parametrize(
    "kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_any_optimiser_moves(kind: Any) -> None:
    trained = small(optimizer=lambda ps: kind(ps, lr=0.01), learning_rate=None)((X, Y), rng=SeededRandom(1))
    assert trained.history.learning_rate == [0.01] * 5


def test_a_schedule_steers_any_optimiser() -> None:
    run = small(optimizer=lambda ps: torch.optim.Adam(ps), learning_rate=cosine(0.2, over=4))
    trained = run((X, Y), rng=SeededRandom(1))
    assert trained.history.learning_rate == pytest.approx(
        [0.2 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(5)]
    )


def test_the_caller_s_model_and_generator_stay_as_they_are() -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3)).eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    trained = small(net, steps=2)((X, Y), rng=SecureRandom())
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(before.values(), net.state_dict().values(), strict=True))
    assert all(p.grad is None for p in net.parameters())
    assert trained.model is not net
    assert not trained.model.training
    assert not torch.equal(next(trained.model.parameters()), next(net.parameters()))


def test_dropout_is_drawn_from_secret_seeds() -> None:
    """With torch's own seed known to all, two steps would otherwise drop alike."""
    net = nn.Sequential(nn.Linear(6, 30), nn.Dropout(0.5), nn.Linear(30, 3))
    run = small(net)
    found = []
    for source in (SecureRandom(), SecureRandom()):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found.append(trainers.Trainer.fresh(run, source).clipped([Batch((X[:5], Y[:5]))]).total["all"])
    assert not torch.equal(*found)


def test_a_model_that_keeps_its_rows_does_not_carry_them_out() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.kept = nn.Linear(6, 3), None

        def forward(self, x: Tensor) -> Any:
            self.kept = x
            return self.line(x)

    net = Keeps()
    trained = small(net, rate=1, n=None)((X, Y), rng=SeededRandom(1)).model
    assert trained.kept is None
    assert not torch.equal(trained.line.weight, net.line.weight)


def test_frozen_parameters_stay() -> None:
    net = two_layers()
    for p in net[0].parameters():  # type: ignore[index]
        p.requires_grad_(False)
    trained = small(net, rate=1, n=None)((X, Y), rng=SeededRandom(1))
    assert torch.equal(trained.model[0].weight, net[0].weight)  # type: ignore[index]
    assert not torch.equal(trained.model[2].weight, net[2].weight)  # type: ignore[index]


def test_a_run_without_a_rate_is_refused_before_the_charge() -> None:
    """Your own training loop has an optimiser with a rate; a run by itself has none then."""
    with pytest.raises(InvalidParameter, match="Expected a learning_rate, or an optimizer that has its own"):
        small(learning_rate=None).fits((X, Y))


def test_values_and_keywords_make_one_run() -> None:
    net, criterion = model(), nn.CrossEntropyLoss()
    whole = DPSGD(
        net,
        criterion,
        lots=Lots(n=300, lot=60, steps=5),
        privacy=Privacy(noise_multiplier=1.0, clip=1.0),
        learning=Learning(learning_rate=0.5),
    )
    door = DPSGD.from_keywords(
        net, criterion, n=300, lot=60, steps=5, noise_multiplier=1.0, clip=1.0, learning_rate=0.5
    )
    assert small(net, criterion) == whole == door


def test_a_field_of_a_value_is_refused_with_the_value() -> None:
    with pytest.raises(TypeError, match=r"DPSGD has no argument lot. Here it is Lots\(lot=…\)"):
        DPSGD(model(), nn.CrossEntropyLoss(), lot=60)  # type: ignore[call-arg]


def test_the_same_seed_gives_the_same_model() -> None:
    first, again, other = (small()((X, Y), rng=SeededRandom(seed)).model.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_run_is_an_immutable_value() -> None:
    run = small()
    assert replace(run) == run
    with pytest.raises(FrozenInstanceError):
        run.example = 2.0  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ accounts


def test_an_account_pays_for_a_run_and_a_learned_model_comes_out() -> None:
    x, y = problem(3000)
    run = DPSGD.from_keywords(
        model(),
        nn.CrossEntropyLoss(),
        n=3000,
        lot=300,
        epochs=10,
        clip=1,
        learning_rate=2,
        epsilon=3,
        delta=1e-5,
    )
    with Ledger.open("sqlite://") as ledger:
        paying = account(ledger, epsilon=4, delta=2e-5)
        release = paying.run(run, (x, y), delta=1e-5)
        assert 2.9 < paying.spent().epsilon <= 3
        assert release.private
        certificate = paying.certificate(release, delta=1e-5)
        assert certificate.bound.upper <= 3
        with pytest.raises(BudgetExceeded):
            paying.run(run, (x, y), delta=1e-5)
    assert float((release.value.model(x).argmax(dim=1) == y).float().mean()) > 0.9


def test_a_container_that_does_not_fit_releases_nothing() -> None:
    """Opened only after the charge, it cannot be asked before."""
    with Ledger.open("sqlite://") as ledger, pytest.raises(AccountFrozen):
        account(ledger).run(small(example=(X[0] * 0, 0)), lambda: (X[:, :2], Y), delta=1e-5)


def test_another_unit_is_refused() -> None:
    with Ledger.open("sqlite://") as ledger:
        people = ledger.create("people", Unit.column("id", max_rows=1), limit=Budget(9, 1e-4))
        with pytest.raises(UnitMismatch):
            people.run(small(), (X, Y))


# ------------------------------------------------------------------------------------------------ wrong parameters


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n": None}, "Expected two of n, lot and rate, got lot=60"),
        ({"n": None, "lot": None, "rate": 0.1}, "Expected two of n, lot and rate, got rate=0.1"),
        ({"rate": 0.2}, "Expected two of n, lot and rate, got n=300, lot=60, rate=0.2"),
        ({"lot": 301}, r"Expected rate=1.00333 in \(0, 1\]"),
        ({"n": 0}, "Expected n=0"),
        ({"epochs": 3}, "Expected one of epochs and steps"),
        ({"steps": None}, "Expected one of epochs and steps"),
        ({"steps": 0}, "Expected steps=0"),
        ({"clip": 0}, "Expected clip=0"),
        ({"clip": float("nan")}, "Expected clip=nan"),
        ({"noise_multiplier": None}, "Expected epsilon and delta, or noise_multiplier"),
        ({"noise_multiplier": None, "epsilon": 1}, "Expected epsilon and delta, or noise_multiplier"),
        ({"noise_multiplier": 0}, "Expected noise_multiplier=0"),
        ({"noise_multiplier": None, "epsilon": 1e-5, "delta": 1e-5}, "is too small for 5 steps: it needs a noise multiplier"),
        ({"epsilon": 0.5, "delta": 1e-5}, "is too small for 5 steps with a noise multiplier of 1: they cost ε ="),
        ({"noise_schedule": ()}, "Expected 1 to 5 factors in noise_schedule, got 0"),
        ({"noise_schedule": (1, -1)}, "Expected noise_schedule=-1"),
        ({"how": 3}, "Expected how to be of the class Execution, got int"),
        ({"n": None, "lot": None, "steps": None, "lots": 3}, "Expected lots to be of the class Lots or FixedLots"),
        ({"learning_rate": -1.0}, "Expected learning_rate=-1"),
        ({"learning_rate": lambda step: 3.0 - step}, "Expected a learning rate in .*, got -1 at step 4"),
        ({"optimizer": lambda ps: torch.optim.SGD(ps, lr=-1.0)}, "makes an optimizer from parameters alone"),
        ({"optimizer": torch.optim.SGD(nn.Linear(6, 3).parameters())}, "not callable.*lambda parameters.*make_private"),
        ({"optimizer": torch.optim.LBFGS}, "whose step.. needs no closure"),
        ({"optimizer": lambda ps: torch.optim.SGD(list(ps)[:1], lr=1)}, "to hold every trainable parameter"),
        ({"multiplicity": 0}, "Expected multiplicity=0"),
        ({"average": 1.0}, "Expected average=1"),
        ({"microbatch": 0}, "Expected microbatch=0"),
        ({"unit": Unit.column("id")}, "how many rows of a person"),
        ({"unit": Unit.client()}, "Expected a unit of one row, or of all rows of a person"),
        ({"grid": True, "clip": Adaptive()}, "Expected a fixed clip with grid=True"),
        ({"grid": 1}, "Expected grid=1 to be True or False"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_raises_before_any_data(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        small(**given)


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), "BatchNorm"),
        (nn.Linear(6, 3).half(), "Expected parameters in float32, float64 or bfloat16, got torch.float16"),
        (nn.Flatten(), "Expected a model with a trainable parameter"),
        (nn.Linear(6, 3).requires_grad_(False), "Expected a model with a trainable parameter"),
        (nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3).double()), "of one precision"),
        (nn.Linear(6, 3, device="meta"), "Expected a model on one device, got meta"),
        (max, "Expected model to be a torch.nn.Module"),
    ],
    ids=["batch norm", "half", "nothing", "frozen", "mixed", "elsewhere", "no model"],
)
def test_a_model_that_cannot_be_trained_so_raises_before_any_data(net: Any, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        small(net)


def test_epochs_are_passes() -> None:
    assert plan(60_000, 256, None, 1, None).steps == 235  # ⌈234.375⌉
    assert plan(None, 256, 0.01, 2, None).steps == 200
    assert plan(1000, None, 0.1, 0.5, None).lot == 100


@pytest.mark.parametrize("clip", [1e-10, 1e19, Adaptive(start=1e-9, low=1e-12, high=1), Adaptive(high=1e20)])
def test_a_clip_that_no_gradient_can_be_clipped_to_is_refused(clip: Any) -> None:
    """Every lot would be left out, and the model be noise."""
    with pytest.raises(InvalidParameter, match="Expected clip="):
        small(clip=clip)


def test_tied_layers_are_grouped_by_their_first_name() -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    net[2].weight = net[0].weight
    assert small(net, clip=PerLayer.by_module(net, 1.0)).groups == {
        "0": ("0.weight", "0.bias"),
        "2": ("2.bias",),
    }


@pytest.mark.parametrize("wide", [X[:, :5], X[:, None]])
@pytest.mark.parametrize("kind", ["tensors", "arrays", "data set"])
def test_a_model_that_does_not_fit_the_data_is_told_before_the_charge(wide: Tensor, kind: str) -> None:
    data: Any = {
        "tensors": (wide, Y), "arrays": (wide.numpy(), Y.numpy()), "data set": torch.utils.data.TensorDataset(wide, Y)
    }[kind]  # fmt: skip
    net = nn.Sequential(nn.Flatten(), nn.Linear(7, 3))
    with Ledger.open("sqlite://") as ledger:
        own = account(ledger)
        with pytest.raises(
            InvalidParameter, match=r"fails on generated rows of the shapes.*Nothing was trained"
        ):
            own.run(small(net), data, delta=1e-5)
        assert len(own.history()) == 1
        own.run(small(), (X, Y), delta=1e-5)


def test_what_only_a_row_can_tell_is_told_neither_before_nor_after_the_charge() -> None:
    """A list that holds a word, or rows of two lengths: without an example it is refused whatever it
    holds."""
    for x in ([[1.0] * 6, *([[1.0] * 5] * 9)], [["word"] * 6] * 10, [[1.0] * 6] * 10):
        with Ledger.open("sqlite://") as ledger:
            own = account(ledger)
            with pytest.raises(InvalidParameter, match=r"Expected example=.*Nothing was charged"):
                own.run(small(), (x, [0] * 10), delta=1e-5)
            assert len(own.history()) == 1
            own.run(small(example=([0.0] * 6, 0)), (x, [0] * 10), delta=1e-5)
