"""The library's edge to DynamoDB: requests, answers and the one boto3 executor."""
