// Package encryptiontest holds the conformance suite of encryptions.
package encryptiontest
