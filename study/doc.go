// Package study is how nettoll measures itself: the evidence behind the defaults of the method, made with the very
// engine it speaks of.
package study
