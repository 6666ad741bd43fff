// Package ruleset makes nftables tables that drop packets that no rule accepts, of any size and family, and reads them
// back: a hundred thousand rules or elements in a second. Package nft, which uses github.com/google/nftables, requests
// an answer to every message and parses every expression. For tables of that size, this would overflow the buffer of a
// socket and take too long. This package writes messages as bytes (nfnetlink,
// include/uapi/linux/netfilter/nf_tables.h), requests an answer only to the last one of a transaction, and compares by
// hashes.
package ruleset
