from tests.components.fixtures import own_rabbitmq, rabbitmq, rabbitmq_url, redis_server, redis_url, s3  # noqa: F401
