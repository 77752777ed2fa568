// Package scribble writes over what a receiver was given, for tests of who owns
// it: no other holder may see the change. Only tests import it.
package scribble

import (
	"reflect"
	"time"
)

// Over writes into every slice, map and pointee that can be reached from v by
// exported fields, into the room behind a slice's end, too, where an append
// would write. What only v itself holds, such as a string in a struct that was
// passed by value, stays: the receiver shares its copy with none.
func Over(v any) { over(reflect.ValueOf(v)) }

func over(v reflect.Value) {
	if !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // many, and all alike
			all := v.Slice(0, v.Cap()).Bytes()
			for i := range all {
				all[i] = 'X'
			}
			return
		}
		for i, all := 0, v.Slice(0, v.Cap()); i < all.Len(); i++ {
			over(all.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			over(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			over(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Pointer, reflect.Interface:
		over(v.Elem())
		set(v, reflect.Zero(v.Type()))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			set(v, reflect.Zero(v.Type()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				over(v.Field(i))
			}
		}
	default:
		scrawl(v)
	}
}

// scrawl changes a value that lies in shared memory.
func scrawl(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Uint8:
		v.SetUint('X')
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1_000_000)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	}
}

func set(v, to reflect.Value) {
	if v.CanSet() {
		v.Set(to)
	}
}
