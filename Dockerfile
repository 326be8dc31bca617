# The service: `docker build -t rankwise .`, then
#   docker run --read-only --tmpfs /tmp -v "$PWD/model:/model:ro" -p 8000:8000 rankwise
# A user without rights, a file system that nobody writes to, and a check that asks whether models are loaded.
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/rankwise \
 && /opt/rankwise/bin/python -m pip install --no-cache-dir --constraint constraints.txt '.[serve]'
# Kernels of scorers are compiled here, for this processor: where nothing can be written, every process would again.
ENV RANKWISE_CACHE=/opt/rankwise/cache
RUN /opt/rankwise/bin/python -c "import rankwise as rw; data = rw.synthetic(n_queries=20, seed=0); \
    rw.LightGBMRanker(rounds=2).fit(data).scorer()(data.features)"

FROM python:3.12-slim
# The system's own release of the library.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --no-create-home --uid 10001 rankwise
COPY --from=build /opt/rankwise /opt/rankwise
ENV PATH=/opt/rankwise/bin:$PATH RANKWISE_CACHE=/opt/rankwise/cache MPLCONFIGDIR=/tmp
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready', timeout=2)"]
ENTRYPOINT ["rankwise", "serve"]
CMD ["/model", "--host", "0.0.0.0"]
