// Package ruleset makes tables of nftables that drop what no rule accepts, of any size and family, and reads them back:
// a hundred thousand rules or elements in a second. Package nft, which goes through github.com/google/nftables, asks
// for an answer to every message and parses every expression, which no socket's buffer holds and no lab has the time
// for. Here messages are written as bytes (nfnetlink, include/uapi/linux/netfilter/nf_tables.h), only the last of a
// transaction is answered, and what is read back is compared by hashes.
package ruleset
