# nats-server as a user other than root: the official image has no folder that a new volume could take that owner from.
ARG NATS_IMAGE=nats:2-alpine
FROM ${NATS_IMAGE}
RUN mkdir -p /data/jetstream && chown -R 10001:10001 /data
USER 10001:10001
