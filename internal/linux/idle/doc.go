// Package idle keeps CPUs from sleeping while a file is open, and reads how long CPUs have slept.
package idle
