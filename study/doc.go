// Package study lets nettoll measure itself: it produces the evidence for the defaults of the method, with the same
// engine that runs use.
package study
