// Package drivertest is the conformance suite of every driver. It runs the real program in a private machine.
package drivertest
