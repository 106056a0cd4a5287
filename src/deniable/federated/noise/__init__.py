"""Where the noise of a run is added, how vectors become integers, and what a client weighs."""
