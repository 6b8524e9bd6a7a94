"""The bus on RabbitMQ; light enough for crawlers: it needs aio-pika and no database."""
