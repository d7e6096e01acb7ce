# The sandbox and what skills are written in: docker build -f docker/sandbox.Dockerfile .
# Skills see all of /usr, so nothing is installed there that they do not need; the service itself is in /app.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_NO_CACHE=1
RUN python -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir uv==0.13.9
WORKDIR /app
COPY pyproject.toml uv.lock ./
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-install-workspace --package skillbus-sandbox
COPY libs libs
COPY services/sandbox services/sandbox
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-editable --package skillbus-sandbox

FROM ${PYTHON_IMAGE}
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends bash bubblewrap nodejs util-linux \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
COPY docker/probe.py /app/probe.py
COPY --from=build /app/.venv /app/.venv
RUN mkdir /data && chown 10001:10001 /data
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
USER 10001:10001
CMD ["python", "-m", "skillbus.sandbox"]
