// Package apicheck has tests that hold what package httpapi serves against its
// own description, the OpenAPI document, by a validator that others wrote.
//
// It is a module of its own, since nothing else needs that validator, and is not
// released.
package apicheck
