"""Threads of a server: those that wait for work with each means that Python and C++ have, and those that wait for a
lock that another thread holds. The name of a thread says which: event-... or lock-... ."""

import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import queue
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import torch

torch.set_num_threads(1)
HOLD = 0.02

NATIVE = r"""
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <pthread.h>
#include <semaphore.h>

static std::mutex held, guard;
static std::timed_mutex timed;
static std::shared_mutex shared;
static std::condition_variable work;
static sem_t semaphore;
static pthread_barrier_t barrier;

static void name(const char* text) { pthread_setname_np(pthread_self(), text); }

template <typename Lock>
static void take(Lock& lock, bool holds) {
  for (;;) {
    lock.lock();
    if (holds) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(holds ? 1 : 0));
  }
}

extern "C" void start() {
  sem_init(&semaphore, 0, 0);
  pthread_barrier_init(&barrier, nullptr, 9);
  std::thread([] { take(held, true); }).detach();
  std::thread([] { name("lock-mutex"); take(held, false); }).detach();
  std::thread([] { take(shared, true); }).detach();
  std::thread([] { name("lock-shared"); take(shared, false); }).detach();
  std::thread([] { take(timed, true); }).detach();
  std::thread([] {
    name("lock-timed");
    for (;;) if (timed.try_lock_for(std::chrono::seconds(9))) timed.unlock();
  }).detach();
  std::thread([] {
    name("event-condvar");
    std::unique_lock lock(guard);
    for (;;) work.wait(lock);
  }).detach();
  std::thread([] {
    name("event-timed");
    std::unique_lock lock(guard);
    for (;;) work.wait_for(lock, std::chrono::milliseconds(30));
  }).detach();
  std::thread([] { name("event-sem"); for (;;) sem_wait(&semaphore); }).detach();
  std::thread([] { name("event-barrier"); pthread_barrier_wait(&barrier); }).detach();
  std::thread([] {
    name("event-join");
    std::thread([] { name("sleeper"); for (;;) std::this_thread::sleep_for(std::chrono::seconds(9)); }).join();
  }).detach();
  std::thread([] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      work.notify_all();
      sem_post(&semaphore);
    }
  }).detach();
}
"""


def named(name, target):
    def run():
        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
        target()

    threading.Thread(target=run, daemon=True).start()


def forever(function):
    def run():
        while True:
            function()

    return run


def contend(prefix, lock):
    def hold():
        while True:
            with lock:
                time.sleep(HOLD)
            time.sleep(0.001)

    def wait():
        while True:
            with lock:
                pass

    threading.Thread(target=hold, daemon=True).start()
    named(prefix, wait)


def main():
    directory = tempfile.mkdtemp()
    library = Path(directory) / "native.so"
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-xc++", "-", "-o", str(library)],
                   input=NATIVE, text=True, check=True)
    ctypes.CDLL(str(library)).start()

    contend("lock-python", threading.Lock())
    contend("lock-rlock", threading.RLock())
    contend("lock-process", multiprocessing.Lock())

    queues = [queue.Queue(), queue.SimpleQueue()]
    idle = [queue.Queue(), queue.SimpleQueue()]
    condition = threading.Condition()
    event = threading.Event()
    semaphore = threading.Semaphore(0)
    named("event-queue", forever(queues[0].get))
    named("event-simple", forever(queues[1].get))
    named("event-idle", forever(idle[0].get))
    named("event-idlesimple", forever(idle[1].get))

    def wait_condition():
        with condition:
            while True:
                condition.wait()

    named("event-cond", wait_condition)
    named("event-event", forever(lambda: event.wait(0.03)))
    named("event-semaphor", forever(semaphore.acquire))
    sleeper = threading.Thread(target=lambda: time.sleep(1000), daemon=True)
    sleeper.start()
    named("event-pyjoin", sleeper.join)
    named("poll-asyncio", lambda: asyncio.run(serve()))
    pool = concurrent.futures.ThreadPoolExecutor(2)
    if len(sys.argv) > 1 and sys.argv[1] == "spin":
        # Two threads that never give up the interpreter's lock by themselves.
        named("gil-1", forever(lambda: sum(range(20000))))
        named("gil-2", forever(lambda: sum(range(20000))))
    x = torch.ones(4)
    print("READY", flush=True)
    while True:
        time.sleep(0.03)
        torch.add(x, 1)
        for each in queues:
            each.put(1)
        with condition:
            condition.notify_all()
        semaphore.release()
        pool.submit(int).result()


async def serve():
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    while True:
        await asyncio.sleep(0.05)


main()
