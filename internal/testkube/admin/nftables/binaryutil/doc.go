// Package binaryutil has the names of byte orders, which say nothing here.
package binaryutil
