// Package ipsec is the encryption "ipsec": ESP between hosts.
package ipsec
