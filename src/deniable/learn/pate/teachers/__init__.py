"""Teachers: who learns from which rows (`partition`), what learns (`estimators`, `kernel`, `networks`,
`pool`, on blocks of one public shape, `stacked`), and what is seen of them from outside (`voting`)."""
