"""What schemathesis does not know by itself: a body of git's protocol is bytes."""
import schemathesis


@schemathesis.serializer("application/x-git-upload-pack-request")
def git(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
