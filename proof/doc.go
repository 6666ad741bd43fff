// Package proof gathers evidence from the very lab that is measured that it lets in, and keeps out, what its stack
// claims.
package proof
