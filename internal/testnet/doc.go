// Package testnet gives each test a private machine: a network namespace with only a loopback link. It also makes tests
// accountable for what they skip ([Skip], house rule 12) and for what they leave behind ([Main], house rule 13).
//
// A package whose tests touch a kernel has a TestMain that calls [Main]. Main runs the tests a second time in mount and
// network namespaces of their own, so that nothing that a test does, or leaves when it is killed, affects this machine.
package testnet
