// Package golden compares long texts that tests expect with files, and writes these files anew with the flag -update.
package golden
