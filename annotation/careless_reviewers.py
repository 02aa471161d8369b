"""Detects careless reviewers: those who accept suggestions unread, and those who overlook what is in a text.

reads  per reviewer: decoys shown and accepted; sensitivities that are present, shown without a suggestion, and missed
gives  the reasons to flag a reviewer

Each test is an e-process: the likelihood of the answers, averaged over all rates above the honest one, divided by their
likelihood at the honest one. While a reviewer's chance of a mistake is at most HONEST, whatever they answered before,
its expected value never grows, so it ever exceeds 1 / FALSE_ALARM with a chance of at most FALSE_ALARM (Ville): looking
daily costs nothing. Both tests together ever flag an honest reviewer with a chance of at most 0.5 %.
"""

from math import exp, fsum, inf, lgamma, log

FALSE_ALARM = 0.0025  # of each test, over all the work of a reviewer
HONEST_ACCEPTS = 0.2  # decoys that an attentive reviewer may accept: some look true
HONEST_MISSES = 0.3  # share of present and unsuggested traits that an attentive reviewer may miss
UNREAD = "accepts suggestions unread"
PAST = "reads past what is there"


def flags(*, accepted: int, decoys: int, missed: int, there: int) -> list[str]:
    """The reasons to flag a reviewer who accepted or missed more than an attentive one would; mostly empty."""
    tests = {UNREAD: (accepted, decoys, HONEST_ACCEPTS), PAST: (missed, there, HONEST_MISSES)}
    return [reason for reason, answers in tests.items() if log_evidence(*answers) >= log(1 / FALSE_ALARM)]


def log_evidence(mistakes: int, answers: int, honest: float) -> float:
    """log E against every rate of mistakes up to `honest`, with an even prior over the rates above it.

    With k mistakes in n answers, E is the integral of p^k (1-p)^(n-k) dp from honest to 1, divided by (1 - honest)
    honest^k (1-honest)^(n-k); the integral is B(k+1, n-k+1) P(X <= k) with X ~ Binomial(n+1, honest).
    """
    k, n, log_honest, log_other = mistakes, answers, log(honest), log(1 - honest)
    tail = fsum(exp(log_choose(n + 1, i) + i * log_honest + (n + 1 - i) * log_other) for i in range(k + 1))
    if not tail:  # so few mistakes that the chance is below the smallest number
        return -inf
    beta = -log_choose(n, k) - log(n + 1)
    return beta + log(tail) - log_other - k * log_honest - (n - k) * log_other


def log_choose(n: int, k: int) -> float:
    """The logarithm of the binomial coefficient."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
