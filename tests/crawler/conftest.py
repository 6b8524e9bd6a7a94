from tests.components.fixtures import rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401
