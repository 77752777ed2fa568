//go:build goexperiment.jsonv2

package gotype

var malformed []any
