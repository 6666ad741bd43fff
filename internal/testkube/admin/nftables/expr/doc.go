// Package expr has the names of expressions in rules of nftables, which say nothing here.
package expr
