// Package dockertest starts a daemon of Docker for tests, which stands for that of the machine.
package dockertest
