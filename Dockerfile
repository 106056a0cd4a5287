# The service: deniable serve. Build: docker build -t deniable .   Run it with compose.yaml, or beside a PostgreSQL of your own.
FROM python:3.12-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml hatch_build.py README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/deniable \
 && /opt/deniable/bin/pip install --no-cache-dir --constraint constraints.txt ".[server,postgres]"

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /srv/deniable --create-home deniable \
 && install --directory --owner=deniable --mode=700 /srv/deniable/state
COPY --from=build /opt/deniable /opt/deniable
ENV PATH=/opt/deniable/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /srv/deniable
USER 10001
# State and keys live in a volume; data is mounted read-only.
VOLUME ["/srv/deniable/state"]
EXPOSE 8000 5433
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/v1/health', timeout=4)"]
ENTRYPOINT ["deniable", "serve", "--settings", "/srv/deniable/server.toml"]
