#!/bin/sh
# Init script of a service of a demonstration node: /etc/init.d/NAME starts and stops /usr/local/sbin/NAME.
name=${0##*/}
pid_file=/run/$name.pid

# A process that has ended and was not waited for does not run.
is_running() {
  [ -s "$pid_file" ] && pid=$(cat "$pid_file") && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] \
    && ! grep -q '^State:.*[ZX]' "/proc/$pid/status" 2>/dev/null
}

start() {
  is_running && return
  setsid "/usr/local/sbin/$name" </dev/null >>"/var/log/$name.log" 2>&1 &
  echo $! >"$pid_file"
  for try in 1 2 3 4 5 6 7 8 9 10; do is_running && return; sleep 0.1; done
  echo "$name did not start; see /var/log/$name.log"
  return 1
}

stop() {
  is_running || return 0
  kill "$pid"
  for try in 1 2 3 4 5 6 7 8 9 10; do is_running || { rm -f "$pid_file"; return 0; }; sleep 0.1; done
  kill -KILL "$pid" 2>/dev/null
  rm -f "$pid_file"
}

case $1 in
  start) start ;;
  stop) stop ;;
  restart) stop && start ;;
  status) if is_running; then echo "$name is running, process $pid"; else echo "$name is stopped"; exit 3; fi ;;
  *) echo "usage: $0 start|stop|restart|status"; exit 2 ;;
esac
