"""Real servers that can be killed and started again on the same ports, and a wire to them that can be cut."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import boto3
import redis
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from kombu import Connection
from kombu.exceptions import OperationalError

READY_SECONDS = 90.0
BUCKET = "bucket"


class Killable:
    """A process that can be killed and started again; its output goes on in one log."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._log = log
        self._environment = dict(environment or {})
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, in a session of its own."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=output,
                cwd=self._log.parent,
                env=os.environ | self._environment,
                start_new_session=True,
            )

    def await_answer(self, answers: Callable[[], bool]) -> None:
        """Waits until it answers. Raises RuntimeError, with its last lines, where it ends instead."""

        def known() -> bool:
            return self.exit_code is not None or answers()

        wait_until(known, f"{self._command[0]} answers")
        if self.exit_code is not None:
            raise RuntimeError(f"{self._command[0]} ended at its start: {self.tail(20)}")

    @contextmanager
    def up(self) -> Iterator[Self]:
        """Itself, from when it answers until its end."""
        try:
            self.start()
            yield self
        finally:
            self.end()

    def kill(self) -> None:
        """Ends it at once, as a machine that is lost does."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def end(self, seconds: float = 60.0) -> int:
        """Asks it to end, and makes it after a while; its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self.process.returncode)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self.process is None else self.process.poll()

    def tail(self, lines: int = 1) -> str:
        """The last lines that it wrote."""
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-lines:])


class Redis(Killable):
    """A Redis that keeps nothing: started again, it is empty."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError("no broker: redis-server is not installed; infra/servers.sh installs it")
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        super().__init__(command, folder / "redis.log")

    def start(self) -> None:
        super().start()
        self.await_answer(self._answers)

    def _answers(self) -> bool:
        with redis.Redis(port=self.port) as client, suppress(redis.RedisError):
            return bool(client.ping())
        return False


class RabbitMQ(Killable):
    """A RabbitMQ with a node of its own."""

    def __init__(self, folder: Path) -> None:
        # Debian's command on the path changes the user; this one runs as whoever calls it
        debians = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        found = str(debians) if debians.exists() else shutil.which("rabbitmq-server")
        if found is None:
            raise FileNotFoundError("no broker: rabbitmq-server is not installed; infra/servers.sh installs it")
        port, between_nodes, self._names = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{port}//"
        (folder / "plugins").write_text("[].")
        variables = {
            "HOME": folder,
            "RABBITMQ_NODENAME": f"test{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": port,
            "RABBITMQ_DIST_PORT": between_nodes,
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_LOG_BASE": folder / "logs",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_CONFIG_FILE": folder / "none",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "ERL_EPMD_PORT": self._names,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        super().__init__([found], folder / "rabbitmq.log", {name: str(value) for name, value in variables.items()})

    def start(self) -> None:
        super().start()
        self.await_answer(self._answers)

    def end(self, seconds: float = 60.0) -> int:
        code = super().end(seconds)
        # the daemon that knows the names of Erlang's nodes outlives them
        subprocess.run(["epmd", "-port", str(self._names), "-kill"], capture_output=True, check=False)
        return code

    def _answers(self) -> bool:
        with suppress(OSError, OperationalError), Connection(self.url) as connection:
            connection.ensure_connection(max_retries=1, timeout=2)
            return True
        return False


class S3(Killable):
    """A SeaweedFS with one bucket, which outlives it."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if program is None:
            raise FileNotFoundError("no S3 server: weed is not installed; it comes with the development packages")
        identity = {"name": "t", "actions": ["Admin"], "credentials": [{"accessKey": "key", "secretKey": "secret"}]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir()
        master, volume, filer, self.port, admin = free_ports(5)
        command = [
            *(program, "mini", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false"),
            *(f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={self.port}"),
            *(f"-admin.port={admin}", f"-s3.config={folder}/s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            # its Unix sockets would lie in /tmp and its statistics would go abroad
            *("-s3.autoCreateBucket=false", f"-filer.localSocket={folder}/f", f"-s3.localSocket={folder}/s"),
            *("-master.telemetry=false", "-admin.ui=false", "-master.electionTimeout=1s"),
        ]
        super().__init__(command, folder / "s3.log")

    def start(self) -> None:
        super().start()
        self.await_answer(self._is_writable)

    def environment(self, port: int) -> dict[str, str]:
        """What a process needs to speak to it by way of a port of this machine."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _is_writable(self) -> bool:
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, read_timeout=10)
        client = boto3.Session("key", "secret").client(
            "s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{self.port}", config=config
        )
        try:
            with suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True


class Wire:
    """Carries connections to a port of 127.0.0.1 until it is cut; new ones are carried again at once.

    host   the address of this machine at which it listens
    """

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self._target = target
        self._host = host
        self._ends: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait()

    def cut(self) -> int:
        """Breaks off every connection, whatever is under way; how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def close(self) -> None:
        """Ends the wire's thread."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._carry, self._host, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        async with server:
            await self._over.wait()
            server.close()
            await self._cut()
            await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _cut(self) -> int:
        ends = list(self._ends)
        for end in ends:
            end.transport.abort()
        return len(ends) // 2

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        try:
            from_target, to_target = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, to_target}
        try:
            await asyncio.gather(_pump(reader, to_target), _pump(from_target, writer))
        finally:
            for end in (writer, to_target):
                self._ends.discard(end)
                end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are free, with 10,000 added too, below those given to outgoing connections."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.randrange(12_000, 22_000)
            try:
                for number in (port, port + 10_000):
                    held.enter_context(socket.create_server(("127.0.0.1", number)))
            except OSError:
                continue
            found.append(port)
    return found


def wait_until(true: Callable[[], Any], what: str, seconds: float = READY_SECONDS) -> None:
    """Waits for something that has no event. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)
