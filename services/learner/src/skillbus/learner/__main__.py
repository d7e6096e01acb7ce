"""`python -m skillbus.learner`: the learner alone, against `SKILLBUS_NATS_URL`."""

from skillbus.common.runner import run
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

if __name__ == "__main__":
    run(lambda bus: open_learner(bus, LearnerSettings()), "learner")
