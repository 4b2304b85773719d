# Serves the models in /models. UNTESTED: written where no container could be built. Every command in
# it works outside of one.
#
#   docker build -t diglm .
#   docker run -p 127.0.0.1:8000:8000 -e DIGLM_TOKEN=... -v "$PWD/models:/models:ro" diglm
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt ".[commands,frames]" \
    && useradd --create-home diglm && mkdir /cache && chown diglm /cache

# Compiled programs outlive the container if a volume is mounted at /cache.
ENV JAX_COMPILATION_CACHE_DIR=/cache PYTHONUNBUFFERED=1
USER diglm
EXPOSE 8000
VOLUME ["/models", "/cache"]
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=3)"]
# A token is needed: the service listens to other machines.
CMD ["diglm", "serve", "--folder", "/models", "--host", "0.0.0.0"]
