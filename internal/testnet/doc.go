// Package testnet gives each test a private machine, a network namespace with nothing but a loopback link, and makes
// tests accountable: for what they skip ([Skip], house rule 12) and for what they leave behind ([Main], house rule 13).
//
// A package whose tests touch a kernel has a TestMain that calls [Main]. It runs the tests once more in mount and
// network namespaces of their own, so that whatever a test does, or leaves when it is killed, is not done to this
// machine.
package testnet
