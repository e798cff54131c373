# syntax=docker/dockerfile:1
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY migrations migrations
COPY assets assets
COPY data data
COPY benches benches
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin namegate && cp target/release/namegate /namegate

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /nonexistent namegate \
    && install --directory --owner namegate /var/lib/namegate
COPY --from=build /namegate /usr/local/bin/namegate
USER 10001
ENV NAMEGATE_DATA_DIR=/var/lib/namegate
EXPOSE 8080
ENTRYPOINT ["namegate"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
