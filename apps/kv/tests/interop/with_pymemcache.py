"""A stock client, pymemcache, talks to a server of the key-value store.

Usage: with_pymemcache.py HOST:PORT. Each function below is one check on an empty store.
"""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

HOST, PORT = sys.argv[1].rsplit(":", 1)
SERVER = (HOST, int(PORT))


def connect(**options):
    return Client(SERVER, connect_timeout=10, timeout=10, **options)


def until(condition):
    """Expiry counts in whole seconds, so it may take a little longer than one."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.05)


def storing_and_looking_up(client):
    assert client.get("a") is None
    assert client.get("a", default=b"none") == b"none"
    assert client.set("a", "one", noreply=False) is True
    assert client.get("a") == b"one"
    assert client.set("a", b"\x00\r\n\xff", noreply=False) is True
    assert client.get("a") == b"\x00\r\n\xff"
    assert client.set("empty", b"", noreply=False) is True
    assert client.get("empty") == b""


def silent_commands_come_before_later_ones(client):
    for number in range(1000):
        client.set("a", str(number))  # pymemcache wants no reply by default
        assert client.get("a") == str(number).encode()
    client.delete("a", noreply=True)
    assert client.get("a") is None


def conditional_storing(client):
    assert client.replace("a", "x", noreply=False) is False
    assert client.add("a", "one", noreply=False) is True
    assert client.add("a", "two", noreply=False) is False
    assert client.replace("a", "three", noreply=False) is True
    assert client.append("a", "!", noreply=False) is True
    assert client.prepend("a", ">", noreply=False) is True
    assert client.get("a") == b">three!"
    assert client.append("b", "!", noreply=False) is False


def compare_and_swap(client):
    assert client.cas("a", "x", "1", noreply=False) is None  # there is no such item
    client.set("a", "one", noreply=False)
    value, version = client.gets("a")
    assert value == b"one"
    assert client.cas("a", "two", version, noreply=False) is True
    assert client.cas("a", "three", version, noreply=False) is False
    assert client.get("a") == b"two"
    assert client.gets_many(["a", "b"])["a"][0] == b"two"


def arithmetic(client):
    assert client.incr("n", 1) is None
    client.set("n", "10", noreply=False)
    assert client.incr("n", 5) == 15
    assert client.decr("n", 6) == 9
    assert client.decr("n", 100) == 0
    client.set("n", str(2**64 - 1), noreply=False)
    assert client.incr("n", 2) == 1
    client.set("n", "text", noreply=False)
    try:
        client.incr("n", 1)
        raise AssertionError("text was incremented")
    except MemcacheClientError as error:
        assert b"non-numeric" in error.args[0], error


def deleting_touching_and_expiring(client):
    assert client.delete("a", noreply=False) is False
    client.set("a", "one", noreply=False)
    assert client.delete("a", noreply=False) is True
    assert client.touch("a", 10, noreply=False) is False
    client.set("soon", "gone", expire=1, noreply=False)
    client.set("touched", "stays", expire=1, noreply=False)
    client.set("later", "stays", expire=1000, noreply=False)
    client.set("absolute", "stays", expire=int(time.time()) + 1000, noreply=False)
    assert client.touch("touched", 1000, noreply=False) is True
    client.set("past", "gone", expire=-1, noreply=False)
    assert client.get("past") is None
    until(lambda: client.get("soon") is None)
    for key in ("touched", "later", "absolute"):
        assert client.get(key) == b"stays", key


def many_keys_at_once(client):
    values = {f"key{number}": str(number).encode() * 10 for number in range(5000)}
    assert client.set_many(values, noreply=False) == []
    assert client.get_many(list(values) + ["missing"]) == values
    assert client.delete_many(list(values), noreply=False) is True
    assert client.get_many(list(values)) == {}
    client.set_many(values)  # without replies
    assert client.get_many(list(values)) == values


def large_values(client):
    value = bytes(range(256)) * 4000
    assert client.set("large", value, noreply=False) is True
    assert client.get("large") == value
    try:
        client.set("large", value + value, noreply=False)
        raise AssertionError("two megabytes were stored")
    except MemcacheServerError as error:
        assert b"too large" in error.args[0], error
    assert client.get("large") is None  # and the old value is gone, as in memcached
    client.set("large", value, noreply=False)
    assert client.get_many(["large"] * 20)["large"] == value


def statistics_version_and_flushing(client):
    client.set("a", "one", noreply=False)
    stats = client.stats()
    # Flushed items count until somebody meets them, as in memcached.
    assert stats[b"curr_items"] >= 1 and stats[b"limit_maxbytes"] > 0, stats
    assert client.version().startswith(b"1.6."), client.version()
    assert client.flush_all(noreply=False) is True
    assert client.get("a") is None
    assert client.raw_command("verbosity 1", b"\r\n") == b"OK"


def pooled_and_hashed_clients(_):
    pool = PooledClient(SERVER, max_pool_size=4, timeout=10)
    hashed = HashClient([SERVER], timeout=10, use_pooling=True)
    for number in range(100):
        key, value = f"key{number}", str(number).encode()
        assert pool.set(key, value, noreply=False) is True
        assert hashed.get(key) == value
    pool.close()
    hashed.close()


CHECKS = [
    storing_and_looking_up,
    silent_commands_come_before_later_ones,
    conditional_storing,
    compare_and_swap,
    arithmetic,
    deleting_touching_and_expiring,
    many_keys_at_once,
    large_values,
    statistics_version_and_flushing,
    pooled_and_hashed_clients,
]

for check in CHECKS:
    one = connect()
    one.flush_all(noreply=False)
    check(one)
    one.quit()
    print(f"    {check.__name__.replace('_', ' ')}", flush=True)
